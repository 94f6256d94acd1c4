package evict

import (
	"container/list"
	"net/netip"
	"sync"
	"time"
)

const (
	// knownTime is the time for which a host is known after its last session.
	knownTime = 10 * time.Minute
	// maxRemembered bounds the known hosts without a session.
	maxRemembered = 4096
)

// Known holds the hosts from which users have logged on: those with a session, and for ten minutes
// those that had one. Hosts without a session are bounded: one more takes the place of the oldest of
// the user that has the most. Safe for concurrent use.
type Known struct {
	now func() time.Time

	mu         sync.Mutex
	hosts      map[netip.Prefix]*knownHost
	remembered list.List      // of *knownHost: those without a session, in the order of their end
	users      map[string]int // hosts in remembered
}

// knownHost is a host with a session, or one in Known.remembered.
type knownHost struct {
	host     netip.Prefix
	user     string // of the last logon
	sessions int
	left     time.Time     // end of the last session
	place    *list.Element // in remembered; nil with a session
}

// NewKnown returns an empty Known.
func NewKnown() *Known {
	return &Known{now: time.Now, hosts: make(map[netip.Prefix]*knownHost), users: make(map[string]int)}
}

// Enter adds a session of a user from a host. The caller calls Leave when it has ended.
func (k *Known) Enter(host netip.Prefix, user string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.hosts[host]
	if h == nil {
		h = &knownHost{host: host}
		k.hosts[host] = h
	}
	k.recallLocked(h)
	h.user = user
	h.sessions++
}

// Leave removes a session that Enter has added.
func (k *Known) Leave(host netip.Prefix) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.hosts[host]
	if h.sessions--; h.sessions > 0 {
		return
	}
	h.left = k.now()
	h.place = k.remembered.PushBack(h)
	k.users[h.user]++
	for first := k.firstLocked(); h.left.Sub(first.left) >= knownTime; first = k.firstLocked() {
		k.forgetLocked(first)
	}
	if k.remembered.Len() > maxRemembered {
		k.forgetLocked(k.oldestOfMostLocked())
	}
}

// UserOf returns the user that has logged on from a host last, "" if the host is not known.
func (k *Known) UserOf(host netip.Prefix) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.hosts[host]
	if h == nil || h.sessions == 0 && k.now().Sub(h.left) >= knownTime {
		return ""
	}
	return h.user
}

// firstLocked returns the remembered host that left first; there is one.
func (k *Known) firstLocked() *knownHost { return k.remembered.Front().Value.(*knownHost) }

// recallLocked removes a host from remembered, if it is there.
func (k *Known) recallLocked(h *knownHost) {
	if h.place == nil {
		return
	}
	k.remembered.Remove(h.place)
	h.place = nil
	if k.users[h.user]--; k.users[h.user] == 0 {
		delete(k.users, h.user)
	}
}

// forgetLocked removes a remembered host.
func (k *Known) forgetLocked(h *knownHost) {
	k.recallLocked(h)
	delete(k.hosts, h.host)
}

// oldestOfMostLocked returns the remembered host that left first, of the user with the most of them.
func (k *Known) oldestOfMostLocked() *knownHost {
	most := 0
	for _, n := range k.users {
		most = max(most, n)
	}
	e := k.remembered.Front()
	for k.users[e.Value.(*knownHost).user] < most {
		e = e.Next()
	}
	return e.Value.(*knownHost)
}
