"""Files and objects that are named by the offsets they hold: for the sinks of files, S3 and Spark."""
