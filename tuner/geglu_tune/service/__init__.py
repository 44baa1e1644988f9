"""One team tunes, a cluster uses: a database over HTTP, and pages to look at it. Needs the extra `service`."""
