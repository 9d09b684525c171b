"""Streaming models as a service: started, watched and restarted each by itself."""
