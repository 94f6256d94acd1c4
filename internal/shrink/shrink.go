// Package shrink gives the memory of containers back whose content a peer chooses. A map of the language keeps
// the memory of its largest size, and a slice that of its largest length: a peer that fills many of
// them one after the other, and is charged for their present content only, would hold all of it.
//
// The package imports the standard library only.
package shrink

import "iter"

const (
	// least is the size below which a container keeps its memory.
	least = 32
	// ratio: memory is given back when at most one part of so many is in use. So each removal costs a
	// constant time for the copies.
	ratio = 4
)

// Slice returns s, or a copy with less memory if most of the memory of s is unused.
func Slice[T any](s []T) []T {
	if cap(s) < least || len(s) > cap(s)/ratio {
		return s
	}
	return append(make([]T, 0, 2*len(s)), s...)
}

// Map is a map whose memory follows the number of its entries. The zero value is empty. Not safe for
// concurrent use.
type Map[K comparable, V any] struct {
	entries map[K]V
	most    int // entries since the map was made
}

// Len returns the number of entries.
func (m *Map[K, V]) Len() int { return len(m.entries) }

// Get returns the value of a key; ok is false without one.
func (m *Map[K, V]) Get(key K) (value V, ok bool) {
	value, ok = m.entries[key]
	return value, ok
}

// Set sets the value of a key.
func (m *Map[K, V]) Set(key K, value V) {
	if m.entries == nil {
		m.entries = make(map[K]V)
	}
	m.entries[key] = value
	m.most = max(m.most, len(m.entries))
}

// Delete removes a key.
func (m *Map[K, V]) Delete(key K) {
	delete(m.entries, key)
	n := len(m.entries)
	if m.most < least || n > m.most/ratio {
		return
	}
	kept := make(map[K]V, n)
	for k, v := range m.entries {
		kept[k] = v
	}
	m.entries, m.most = kept, n
}

// All returns the entries, in no order. The map must not change meanwhile.
func (m *Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for k, v := range m.entries {
			if !yield(k, v) {
				return
			}
		}
	}
}
