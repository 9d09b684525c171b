"""Fails unless all streams of a dbt run took in nothing: `nothing_new.py target/run_results.json`."""

import json
import sys
from pathlib import Path

results = json.loads(Path(sys.argv[1]).read_text())["results"]
streams = {
    result["unique_id"]: result["adapter_response"]
    for result in results
    if "rows_in" in result["adapter_response"]
}
if not streams:
    sys.exit("There is no stream in this run.")
for name, response in streams.items():
    if response["rows_in"] or response["rows_out"]:
        sys.exit(f"{name} took in {response['rows_in']} rows and put out {response['rows_out']}.")
print(f"{len(streams)} streams, nothing new")
