package kills;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableMetadataParser;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.encryption.EncryptionManager;
import org.apache.iceberg.exceptions.CommitStateUnknownException;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.LocationProvider;
import org.apache.iceberg.jdbc.JdbcCatalog;

/**
 * The embedded catalog, whose next commit to a table can be made to end in not knowing whether it succeeded, or be held
 * up in its middle for a while, in which the process is killed.
 */
public class FaultyCatalog extends JdbcCatalog {
  private static final ConcurrentMap<String, String> ARMED = new ConcurrentHashMap<>();
  private static final ConcurrentMap<String, Hold> HOLDS = new ConcurrentHashMap<>();

  private record Hold(String stage, Path marker, long millis) {}

  /** "unknown": the commit succeeds, "lost": it doesn't; either way nobody is told. Null disarms. Whether the table was armed. */
  public static boolean arm(String table, String fault) {
    return (fault == null ? ARMED.remove(table) : ARMED.put(table, fault)) != null;
  }

  /**
   * Hold up the next commit to a table and make a file that says so: when its "manifests" are written, when its
   * "metadata" is too, or when it is "committed" and the committer isn't told yet. Null lets it pass. Whether it was
   * to be held up.
   */
  public static boolean hold(String table, String stage, String marker, long millis) {
    Hold before = stage == null ? HOLDS.remove(table) : HOLDS.put(table, new Hold(stage, Path.of(marker), millis));
    return before != null;
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
      Hold hold = HOLDS.remove(table);
      if (hold != null && hold.stage.equals("metadata")) {
        String name = "00000-" + java.util.UUID.randomUUID() + ".metadata.json";
        TableMetadataParser.write(metadata, io().newOutputFile(metadataFileLocation(name)));
      }
      if (hold != null && !hold.stage.equals("committed")) {
        pause(hold);
      }
      String fault = ARMED.remove(table);
      if (!"lost".equals(fault)) {
        made.commit(base, metadata);
      }
      if (hold != null && hold.stage.equals("committed")) {
        pause(hold);
      }
      if (fault != null) {
        throw new CommitStateUnknownException(new RuntimeException("the connection of a test broke: " + fault));
      }
    }

    private static void pause(Hold hold) {
      try {
        Files.createFile(hold.marker);
        Thread.sleep(hold.millis);
      } catch (IOException problem) {
        throw new UncheckedIOException(problem);
      } catch (InterruptedException problem) {
        Thread.currentThread().interrupt();
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
