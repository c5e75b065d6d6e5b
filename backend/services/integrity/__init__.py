"""What keeps stored evidence whole: fsck, retention, backups."""
