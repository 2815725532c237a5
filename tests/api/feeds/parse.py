# Parses a feed with feedparser, which accepts what feed readers accept, and prints what it found.
import json
import sys

import feedparser

found = feedparser.parse(sys.stdin.buffer.read(), response_headers={"content-type": sys.argv[1]}, sanitize_html=False)
assert found.bozo == 0, found.get("bozo_exception")
assert found.version == "atom10", found.version


def links(item):
    return {link.rel: link.href for link in item.links}


print(json.dumps({
    "id": found.feed.id,
    "title": found.feed.title,
    "updated": found.feed.updated,
    "author": found.feed.author,
    "links": links(found.feed),
    "entries": [{
        "id": entry.id,
        "title": entry.title,
        "updated": entry.updated,
        "link": links(entry)["alternate"],
        "kinds": [tag.term for tag in entry.tags],
        "type": entry.content[0].type,
        "content": entry.content[0].value,
    } for entry in found.entries],
}))
