"""What `sources.yml` and the profile say of sources, as typed values."""
