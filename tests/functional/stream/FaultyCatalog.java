package kills;

import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.encryption.EncryptionManager;
import org.apache.iceberg.exceptions.CommitStateUnknownException;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.LocationProvider;
import org.apache.iceberg.jdbc.JdbcCatalog;

/** The embedded catalog, whose next commit to a table can be made to end in not knowing whether it succeeded. */
public class FaultyCatalog extends JdbcCatalog {
  private static final ConcurrentMap<String, String> ARMED = new ConcurrentHashMap<>();

  /** "unknown": the commit succeeds, "lost": it doesn't; either way nobody is told. Null disarms. Whether the table was armed. */
  public static boolean arm(String table, String fault) {
    return (fault == null ? ARMED.remove(table) : ARMED.put(table, fault)) != null;
  }

  @Override
  protected TableOperations newTableOps(TableIdentifier table) {
    return new Faulty(super.newTableOps(table), table.name());
  }

  private static class Faulty implements TableOperations {
    private final TableOperations made;
    private final String table;

    Faulty(TableOperations made, String table) {
      this.made = made;
      this.table = table;
    }

    @Override
    public void commit(TableMetadata base, TableMetadata metadata) {
      String fault = ARMED.remove(table);
      if (!"lost".equals(fault)) {
        made.commit(base, metadata);
      }
      if (fault != null) {
        throw new CommitStateUnknownException(new RuntimeException("the connection of a test broke: " + fault));
      }
    }

    @Override
    public TableMetadata current() {
      return made.current();
    }

    @Override
    public TableMetadata refresh() {
      return made.refresh();
    }

    @Override
    public FileIO io() {
      return made.io();
    }

    @Override
    public EncryptionManager encryption() {
      return made.encryption();
    }

    @Override
    public String metadataFileLocation(String fileName) {
      return made.metadataFileLocation(fileName);
    }

    @Override
    public LocationProvider locationProvider() {
      return made.locationProvider();
    }

    @Override
    public TableOperations temp(TableMetadata uncommitted) {
      return made.temp(uncommitted);
    }

    @Override
    public long newSnapshotId() {
      return made.newSnapshotId();
    }

    @Override
    public boolean requireStrictCleanup() {
      return made.requireStrictCleanup();
    }
  }
}
