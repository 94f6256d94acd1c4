package statefile

import "lwio/internal/shrink"

// group has the locations of the records of a group, by item.
type group = shrink.Map[uint64, location]

// location is the place of the put operation of a record.
type location struct {
	gen  uint32 // of the file
	size uint32 // of the operation, in bytes
	off  int64  // in the file
}

// index has the location of each record.
type index struct {
	groups  map[uint64]*group
	records int
	live    int64 // the sizes of all locations
}

// apply applies the operations of a payload at offset off of the file gen.
//
// Errors: a malformed operation; the operations before it are applied.
func (x *index) apply(payload []byte, gen uint32, off int64) error {
	for r := (operations{payload: payload}); ; {
		o, ok, err := r.next()
		switch {
		case err != nil || !ok:
			return err
		case o.kind == opPut:
			x.put(o.key, location{gen: gen, size: uint32(o.size), off: off + int64(o.at)})
		case o.kind == opDelete:
			x.remove(o.key)
		default:
			x.drop(o.key.Group)
		}
	}
}

func (x *index) put(k Key, l location) {
	items := x.groups[k.Group]
	if items == nil {
		if x.groups == nil {
			x.groups = make(map[uint64]*group)
		}
		items = new(group)
		x.groups[k.Group] = items
	}
	if old, ok := items.Get(k.Item); ok {
		x.live -= int64(old.size)
	} else {
		x.records++
	}
	items.Set(k.Item, l)
	x.live += int64(l.size)
}

func (x *index) remove(k Key) {
	items := x.groups[k.Group]
	if items == nil {
		return
	}
	old, ok := items.Get(k.Item)
	if !ok {
		return
	}
	x.live -= int64(old.size)
	x.records--
	if items.Delete(k.Item); items.Len() == 0 {
		delete(x.groups, k.Group)
	}
}

func (x *index) drop(group uint64) {
	items := x.groups[group]
	if items == nil {
		return
	}
	for _, l := range items.All() {
		x.live -= int64(l.size)
	}
	x.records -= items.Len()
	delete(x.groups, group)
}

// holds reports whether the record k is at the place l.
func (x *index) holds(k Key, l location) bool {
	items := x.groups[k.Group]
	if items == nil {
		return false
	}
	at, ok := items.Get(k.Item)
	return ok && at == l
}
