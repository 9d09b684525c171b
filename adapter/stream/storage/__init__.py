"""Files under the storage root: checkpoints, savepoints, deployments."""
