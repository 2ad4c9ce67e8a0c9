"""`frameworkctl`, and `kubectl framework` as a plugin of kubectl."""


def main() -> None:
    """Run the command line and exit with its code."""
    from frameworkclient.cli.app import app
    from frameworkclient.cli.terminal import program

    app(prog_name=program())


if __name__ == "__main__":
    main()
