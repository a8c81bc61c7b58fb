"""The tour: checks headwater's promises on this machine in a minute. It measures or checks every line that it prints."""
