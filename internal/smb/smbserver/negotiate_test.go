package smbserver

import (
	"testing"

	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbwire"
)

// Source: [MS-SMB2 3.3.5.15.12]
func TestAgreementConfirmsTheClientsNegotiationOnly(t *testing.T) {
	cfg := Config{MaxTransferSize: 1 << 20}
	a := newAgreement(&cfg, smbwire.Dialect302, algorithms{cipher: smbauth.AES128CCM})
	a.client = smbwire.ValidateNegotiateRequest{Capabilities: 1, GUID: [16]byte{2}, SecurityMode: 3, Dialects: []uint16{4, 5}}
	if same := a.client; !a.confirms(&same) {
		t.Error("the same values are refused")
	}
	for name, change := range map[string]func(*smbwire.ValidateNegotiateRequest){
		"capabilities": func(v *smbwire.ValidateNegotiateRequest) { v.Capabilities++ },
		"GUID":         func(v *smbwire.ValidateNegotiateRequest) { v.GUID[0]++ },
		"mode":         func(v *smbwire.ValidateNegotiateRequest) { v.SecurityMode++ },
		"dialects":     func(v *smbwire.ValidateNegotiateRequest) { v.Dialects = []uint16{4} },
	} {
		v := a.client
		change(&v)
		if a.confirms(&v) {
			t.Errorf("other %s are confirmed", name)
		}
	}
	a.dialect = smbwire.Dialect311
	if same := a.client; a.confirms(&same) {
		t.Error("dialect 3.1.1 has no such request")
	}
}

// Source: [MS-SMB2 3.3.5.4]
func TestAgreementLimitsDialect202ToOneCredit(t *testing.T) {
	cfg := Config{MaxTransferSize: 1 << 20}
	for dialect, want := range map[uint16]agreement{
		smbwire.Dialect202: {maxTransfer: minTransferSize},
		smbwire.Dialect311: {maxTransfer: 1 << 20, multiCredit: true, caps: smbwire.CapLeasing | smbwire.CapLargeMTU | smbwire.CapPersistentHandles},
	} {
		a := newAgreement(&cfg, dialect, algorithms{})
		if a.maxTransfer != want.maxTransfer || a.multiCredit != want.multiCredit || a.caps != want.caps || !a.ready() {
			t.Errorf("%#x: %+v", dialect, a)
		}
	}
	wildcard := newAgreement(&cfg, smbwire.DialectWildcard, algorithms{})
	if wildcard.ready() || wildcard.response(&Server{}).SecurityMode != 3 { // enabled and required
		t.Errorf("%+v", wildcard)
	}
}
