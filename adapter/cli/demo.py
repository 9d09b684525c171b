"""``dbt-stream demo``: makes a dbt project that runs, with orders of a web shop."""

from __future__ import annotations

import runpy
import shutil
import sys
from pathlib import Path
from shlex import quote

from .project import ProjectError

_HOURS = 12
"""Hours of orders that are there from the start."""


def make_demo(folder: Path) -> str:
    """Makes the project, and returns the commands to type next."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ProjectError(f"{folder} isn't empty; name another folder, as in `dbt-stream demo my_shop`.")
    import dbt.include.spark_streaming

    try:
        packaged = Path(dbt.include.spark_streaming.__path__[0]) / "demo"
        compiled = shutil.ignore_patterns("__pycache__")
        shutil.copytree(packaged, folder, dirs_exist_ok=True, ignore=compiled)
        (folder / "gitignore").rename(folder / ".gitignore")
        orders = runpy.run_path(str(folder / "orders.py"))
        orders["write_history"](_HOURS, orders["now_in_minutes"]())
    except OSError as problem:
        raise ProjectError(f"{folder} can't be written: {problem.strerror or problem}.") from problem
    enter = "" if folder.resolve() == Path.cwd() else f"  cd {quote(str(folder))}\n"
    python = Path(sys.executable).name
    return f"""{folder} is a dbt project with {_HOURS} hours of orders of a web shop, and three models of them. Next:

{enter}  dbt build            # reads the orders and tests the tables; the first time it fetches Spark's packages
  dbt show --inline "select * from {{{{ ref('orders_per_shop') }}}} order by window_start desc"
  {python} orders.py &   # writes a file of orders each minute
  dbt-stream run       # keeps the tables up to date until Ctrl-C

README.md says what is there. `dbt-stream explain top_products` shows how a model is computed, `dbt-stream verify
orders_per_shop` compares its table with a batch run."""
