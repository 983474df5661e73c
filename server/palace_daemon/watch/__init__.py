"""Noticing that files may have changed, and finding them: the only package that imports watchdog.

Invariant: what comes out of here is a hint. Paths may be reported twice, late or without a change, and after a lost
notification not at all; the service stats, compares with its cursor, and rescans on a timer. Nothing here opens a file,
so a FIFO or a device in a watched directory blocks nobody.

Invariant: a root may be a symbolic link and is resolved once; links found below a root are not followed. All parts of
this package, the walk and the notifiers, therefore name a file by the same resolved path.
"""
