"""The command line ``palace-daemon``.

Invariant: importing :mod:`palace_daemon.cli.main` loads argparse and the modules here, and nothing heavier; what a
command needs is imported when it runs. Commands that ask a running daemon use :mod:`palace_daemon.client` alone.
Results go to standard output, everything else to standard error.
"""
