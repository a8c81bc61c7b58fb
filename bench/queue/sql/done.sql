DELETE FROM {table} WHERE id = ANY (%(ids)s)
