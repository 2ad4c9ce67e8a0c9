"""The archive: keeps what has run, and shows it on a page.

`follow` sees Frameworks as the API server has them and keeps each state in `archive`, a relational database; `logs`
reads the logs of Pods before they go; `page` shows both, to those who may see them.
"""

# The version of the distribution, whose metadata an image does not carry; a test compares the two.
__version__ = "0.3.0"
