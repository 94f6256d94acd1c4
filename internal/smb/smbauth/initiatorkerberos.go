package smbauth

import "fmt"

// takeReply takes the server's reply of Kerberos, which must prove the server's identity. out is the
// code over the list of mechanisms, if the server asks for it.
//
// Source: [RFC 4178 §5], [RFC 4121 §4.1]
func (i *Initiator) takeReply(in []byte) (out []byte, done bool, err error) {
	resp, err := decodeNegTokenResp(in)
	if err != nil {
		return nil, false, err
	}
	if resp.Mech != "" && !isKerberos(resp.Mech) {
		return nil, false, fmt.Errorf("the server chose a mechanism that was not offered: %w", ErrMechanism)
	}
	if resp.State != stateAcceptCompleted && resp.State != stateAcceptIncomplete {
		return nil, false, fmt.Errorf("SPNEGO state %d in the reply of Kerberos: %w", resp.State, ErrMechanism)
	}
	reply, err := decodeKerberosReply(resp.Token)
	if err != nil {
		return nil, false, err
	}
	c, err := i.cfg.Kerberos.Finish(reply)
	if err != nil {
		return nil, false, err
	}
	if resp.MIC != nil && !c.Verify(i.mechList, resp.MIC) {
		return nil, false, fmt.Errorf("mechanism list: %w", ErrIntegrity)
	}
	i.sessionKey, i.expires, i.verify = c.SessionKey, c.Expires, c.Verify
	if resp.State == stateAcceptCompleted {
		return nil, true, nil
	}
	next := negTokenResp{State: stateAbsent, MIC: c.MIC(i.mechList)}
	return next.appendTo(nil), false, nil
}
