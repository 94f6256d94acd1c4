"""Writes a table to a share with pandas and reads it again:

python3 table.py lwio://alice:secret@server/data/table.csv
"""

import sys

import pandas

url = sys.argv[1]
pandas.DataFrame({"n": range(10), "square": [n * n for n in range(10)]}).to_csv(url, index=False)
print(pandas.read_csv(url).tail(3))
