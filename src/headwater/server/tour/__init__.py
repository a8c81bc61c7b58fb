"""The tour: a minute in which headwater shows, on this machine, that it keeps what it promises. Every line is measured or checked."""
