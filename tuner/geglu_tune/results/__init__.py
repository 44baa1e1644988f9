"""Results as everybody shows them: flat records, the columns of tables, the points of pictures."""
