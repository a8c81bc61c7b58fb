"""Who may write a partition that has one owner."""
