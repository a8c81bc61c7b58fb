"""Object stores that speak S3's protocol."""
