package association

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"sync"
	"time"

	"lwio/internal/wire"
)

// keyPair is the result of a negotiation. AUTH of the client contains serverKey, and the answer of the
// server contains clientKey. keyTable.mu guards the fields that change.
//
// Source: [LWIO §Network Discovery] [OP-42] [OP-42b]
type keyPair struct {
	lineage              Lineage
	clientKey, serverKey [16]byte
	// authKey is the key of the keyed signatures; nil if the session of the negotiation had no
	// application key. A later session of the lineage does not change it.
	authKey []byte
	name    [sha256.Size]byte // in keyTable.pairs
	made    time.Time

	used  bool // by an AUTH that succeeded
	dead  bool
	conns map[Conn]struct{}
}

const (
	// unusedKeyLife is the time for which a pair waits for its first AUTH. [OP-42]
	unusedKeyLife = 60 * time.Second
	// pairsPerLineage bounds the pairs of one lineage.
	pairsPerLineage = 16
)

// Causes of a refusal of AUTH or of a negotiation. They are not sent to the client.
var (
	errUnknownKey   = errors.New("unknown key")
	errPairFull     = errors.New("too many connections with this key")
	errTooManyPairs = errors.New("too many keys of this client")
)

// keyTable holds the pairs of all lineages. Safe for concurrent use.
type keyTable struct {
	now    func() time.Time
	limit  int // connections per pair
	secret [sha256.Size]byte

	mu        sync.Mutex
	pairs     map[[sha256.Size]byte]*keyPair // by nameOf(serverKey)
	byLineage map[Lineage][]*keyPair
}

func newKeyTable(limit int) *keyTable {
	t := &keyTable{
		now: time.Now, limit: limit,
		pairs: make(map[[sha256.Size]byte]*keyPair), byLineage: make(map[Lineage][]*keyPair),
	}
	rand.Read(t.secret[:]) // never fails
	return t
}

// nameOf returns the name of a key in the map. It is a keyed hash, so a client cannot control the
// comparisons of the map.
func (t *keyTable) nameOf(key [16]byte) [sha256.Size]byte {
	h := sha256.New()
	h.Write(t.secret[:])
	h.Write(key[:])
	return [sha256.Size]byte(h.Sum(nil))
}

// add makes a pair for a lineage, whose present session has an application key. first: the lineage had
// no pair.
//
// Source: [OP-46b]
func (t *keyTable) add(lineage Lineage, secret, clientKey [16]byte) (p *keyPair, first bool, err error) {
	p = &keyPair{lineage: lineage, clientKey: clientKey, made: t.now(), conns: make(map[Conn]struct{})}
	rand.Read(p.serverKey[:]) // never fails
	if secret != [16]byte{} {
		p.authKey = wire.DeriveAuthKey(secret[:], p.clientKey, p.serverKey)
	}
	p.name = t.nameOf(p.serverKey)
	t.mu.Lock()
	defer t.mu.Unlock()
	list, known := t.byLineage[lineage]
	kept := make([]*keyPair, 0, len(list)+1)
	for _, old := range list {
		if t.expiredLocked(old) {
			t.dropLocked(old)
			if len(old.conns) == 0 {
				continue
			}
			// A later NEGOTIATE with the same client key waits for its connections too.
		}
		kept = append(kept, old)
	}
	if len(kept) >= pairsPerLineage {
		if kept = t.evictLocked(kept); kept == nil {
			return nil, false, errTooManyPairs
		}
	}
	t.pairs[p.name] = p
	t.byLineage[lineage] = append(kept, p)
	return p, !known, nil
}

// evictLocked drops the oldest pair that no connection uses.
func (t *keyTable) evictLocked(list []*keyPair) []*keyPair {
	for i, p := range list {
		if len(p.conns) == 0 {
			t.dropLocked(p)
			return append(list[:i], list[i+1:]...)
		}
	}
	return nil
}

// dropLocked removes a pair from the look-up.
func (t *keyTable) dropLocked(p *keyPair) {
	p.dead = true
	delete(t.pairs, p.name)
}

// drop removes a pair whose key was not sent to the client.
func (t *keyTable) drop(p *keyPair) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropLocked(p)
}

// expiredLocked reports whether a pair is no longer valid.
func (t *keyTable) expiredLocked(p *keyPair) bool {
	return p.dead || !p.used && t.now().Sub(p.made) > unusedKeyLife
}

// find returns the pair of a server's key from an AUTH.
func (t *keyTable) find(serverKey [16]byte) (*keyPair, error) {
	name := t.nameOf(serverKey)
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.pairs[name]
	if p == nil || t.expiredLocked(p) || !equal(p.serverKey[:], serverKey[:]) {
		return nil, errUnknownKey
	}
	return p, nil
}

// admit adds a connection that has proved the knowledge of the pair.
//
// Source: [OP-42b]
func (t *keyTable) admit(p *keyPair, c Conn) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.expiredLocked(p):
		return errUnknownKey
	case len(p.conns) >= t.limit:
		return errPairFull
	}
	p.used = true
	p.conns[c] = struct{}{}
	return nil
}

// leave removes a connection.
func (t *keyTable) leave(p *keyPair, c Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(p.conns, c)
}

// endLineage removes the pairs of a lineage and returns its connections.
//
// Source: [OP-42]
func (t *keyTable) endLineage(lineage Lineage) []Conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	var conns []Conn
	for _, p := range t.byLineage[lineage] {
		t.dropLocked(p)
		for c := range p.conns {
			conns = append(conns, c)
		}
	}
	delete(t.byLineage, lineage)
	return conns
}

// fence removes the pairs of a lineage that have a client key and returns their connections.
//
// Source: [OP-112]
func (t *keyTable) fence(lineage Lineage, clientKey [16]byte) []Conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	var conns []Conn
	for _, p := range t.byLineage[lineage] {
		if !equal(p.clientKey[:], clientKey[:]) {
			continue
		}
		t.dropLocked(p)
		for c := range p.conns {
			conns = append(conns, c)
		}
	}
	return conns
}

// equal compares secrets in a time that does not depend on them.
func equal(a, b []byte) bool { return subtle.ConstantTimeCompare(a, b) == 1 }
