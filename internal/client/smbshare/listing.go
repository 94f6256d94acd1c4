package smbshare

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"

	"lwio/internal/smb/smbwire"
)

// entryCost is the memory of an Entry and of its DirEntry, without the name, in bytes.
const entryCost = 256

var errListing = errors.New("the listing takes more memory than Config.MaxListing")

// listed collects an enumeration. A name that cannot be represented does not end it. An enumeration
// that needs more than limit bytes is given up: a hostile server can send entries without end.
func listed(entries iter.Seq2[Entry, error], limit int64) (list []Entry, err error) {
	var misnamed error // the first
	missing := 0
	for e, err := range entries {
		if limit -= entryCost + int64(len(e.Name)); limit < 0 {
			return list, fmt.Errorf("%w, after %d entries", errListing, len(list)+missing)
		}
		switch {
		case errors.Is(err, smbwire.ErrName):
			if missing++; misnamed == nil {
				misnamed = err
			}
		case err != nil:
			return list, err
		default:
			list = append(list, e)
		}
	}
	if missing > 0 {
		return list, fmt.Errorf("%w: %d entries are missing in the list: %s", fs.ErrInvalid, missing, misnamed.Error())
	}
	return list, nil
}
