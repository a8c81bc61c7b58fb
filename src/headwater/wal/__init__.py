"""Write-ahead log regions: many tables share one log, and each forgets on its own what it has flushed."""
