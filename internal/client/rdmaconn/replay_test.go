package rdmaconn

import "testing"

// Source: [OP-112]
func TestWritesTooManyMessagesAgoAreNotReplayed(t *testing.T) {
	for _, tc := range []struct {
		recent, number uint64
		want           bool
	}{
		{0, 99_999, false}, {0, 100_000 - maxBehind, false}, {0, 100_000 - maxBehind - 1, true}, {0, 1, true},
		// Of connections before the last one.
		{99_990, 99_989, false}, {99_990, 100_000 - maxFarBehind, false}, {99_990, 100_000 - maxFarBehind - 1, true},
		{90_000, 90_000, false}, {90_000, 89_999, true},
	} {
		c := new(Conn)
		c.priorFirst, c.send.seq = tc.recent, 100_000
		if c.TooOld(tc.number) != tc.want {
			t.Errorf("%+v", tc)
		}
	}
}
