package wire

import (
	"encoding/hex"
	"testing"
)

// Source: [OP-114b]
func TestDeriveSealKey(t *testing.T) {
	key := DeriveAuthKey(applicationKey, clientKey, serverKey)
	start := ConnectionStart{Nonce: [16]byte{0: 0xF1, 15: 0xF2}}
	nonce, binding := start.Nonce, start.Binding("iwarp")
	for role, vector := range map[Role]string{RoleClient: sealVectorC, RoleServer: sealVectorS} {
		got := DeriveSealKey(key, role, nonce, binding)
		if hex.EncodeToString(got[:]) != vector {
			t.Errorf("%c: %x, want %s", role, got, vector)
		}
	}
	one := DeriveSealKey(key, RoleClient, nonce, binding)
	for name, other := range map[string][16]byte{
		"another nonce of the client": DeriveSealKey(key, RoleClient, [16]byte{1}, binding),
		"another connection":          DeriveSealKey(key, RoleClient, nonce, start.Binding("shm")),
		"another session":             DeriveSealKey(key[:31], RoleClient, nonce, binding),
	} {
		if one == other {
			t.Errorf("%s has the same key", name)
		}
	}
}
