"""Fulfils the ports with real libraries; the only room that retries and meets their types."""
