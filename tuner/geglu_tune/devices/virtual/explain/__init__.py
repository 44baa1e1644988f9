"""Why a tiling is as fast as it is: what `geglu-tune explain` tells, draws and traces."""
