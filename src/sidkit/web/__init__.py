"""What the explorer and the service share: a listening socket, who may ask, and limits on connections."""
