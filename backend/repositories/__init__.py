"""Every statement that the service sends to its database, ownership in the WHERE clause."""
