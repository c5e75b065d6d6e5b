"""The CLI's file journal and theatre store."""
