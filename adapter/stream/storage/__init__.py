"""What is kept under the storage root: checkpoints, savepoints, deployments, owners."""
