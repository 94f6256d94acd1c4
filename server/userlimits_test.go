package server

import (
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/vfs"
)

// The registered files of a user are bounded on all connections together. A file counts until its
// registration ends, and other users register files meanwhile.
//
// Source: [LWIO §File Registration] (the limit is ours)
func TestRegistrationsOfAUserAreBounded(t *testing.T) {
	onEach(t, testRegistrationsOfAUserAreBounded)
}

func testRegistrationsOfAUserAreBounded(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on, limits: Limits{Registrations: 8}}) // 6 for a user
	o := v.open("a", vfs.ReadData, 0, v.sess)
	a, b := v.client(), v.client()
	var last uint16
	for range 3 {
		a.register(o)
		last = b.register(o)
	}
	for _, c := range []*rawClient{a, b} {
		h, body := c.registerMessage(o)
		c.want(ntstatus.TooManyOpenedFiles, 0, h, body)
	}
	bob := newFakeSession(2)
	bob.user = "bob"
	n := v.negotiate(bob)
	c := v.connect(n)
	c.auth(n, authOptions{})
	c.register(v.open("a", vfs.ReadData, 0, bob))
	b.want(ntstatus.Success, 0, controlHeader(wire.OpClose, last), nil)
	b.register(o)
	for _, c := range []*rawClient{a, b, c} {
		c.connector.Close()
	}
	eventually(t, "all is returned", func() bool { return v.e.registered.Held() == 0 && int(v.e.credits.sum.Held()) == 0 })
}

// The connections of a user get at most three quarters of the memory for writes together. A new
// connection, of any user, gets a credit.
//
// Source: [OP-69] [OP-74c] (the limit is ours)
func TestCreditsOfAUserAreBounded(t *testing.T) {
	v := newEnv(t, envConfig{limits: Limits{Credits: 4, MaxCredits: 16, CreditBudget: 16}})
	for range 8 {
		c := v.client()
		c.send(hungry(16), nil)
		c.reply()
	}
	sum := v.e.credits.sum
	if n := sum.HeldBy("alice"); n < 12 || n > 12+8 {
		t.Errorf("a user has %d credits, want 12 and at most one for each connection", n)
	}
	bob := newFakeSession(2)
	bob.user = "bob"
	n := v.negotiate(bob)
	c := v.connect(n)
	c.auth(n, authOptions{})
	if c.credits < 1 {
		t.Errorf("another user gets %d credits", c.credits)
	}
}
