package smbauth

import "fmt"

// acceptTicket takes the request of Kerberos. It is the client's only token of this mechanism. mic is
// the client's code over the list of mechanisms, if it can make one already.
//
// Source: [RFC 4178 §5], [MS-SMB2 3.3.5.5.3]
func (a *Acceptor) acceptTicket(token, mic []byte, mech string) ([]byte, error) {
	q, err := decodeKerberosRequest(token)
	if err != nil {
		return nil, err
	}
	c, err := a.cfg.Kerberos.Accept(q)
	if err != nil {
		return nil, err
	}
	a.domain, a.user = c.Realm, c.User
	name, ok := a.cfg.LookupPrincipal(c.Realm, c.User)
	if !ok {
		return nil, ErrCredentials
	}
	a.name, a.sessionKey, a.expires, a.kerberos = name, c.SessionKey, c.Expires, c
	resp := negTokenResp{State: stateAcceptCompleted, Mech: mech}
	if c.Reply != nil {
		resp.Token = appendKerberosReply(nil, c.Reply)
	}
	a.state = acceptorDone
	switch {
	case mic != nil && !c.Verify(a.mechList, mic):
		return nil, fmt.Errorf("mechanism list: %w", ErrIntegrity)
	case mic != nil:
		resp.MIC = c.MIC(a.mechList)
	case a.needMIC:
		resp.MIC = c.MIC(a.mechList)
		resp.State = stateAcceptIncomplete
		a.state = acceptorMIC
	}
	return resp.appendTo(nil), nil
}

// lastMIC takes the client's code over the list of mechanisms.
//
// Source: [RFC 4178 §5]
func (a *Acceptor) lastMIC(in []byte) ([]byte, error) {
	resp, err := decodeNegTokenResp(in)
	if err != nil {
		return nil, err
	}
	if resp.MIC == nil || !a.kerberos.Verify(a.mechList, resp.MIC) {
		return nil, fmt.Errorf("mechanism list: %w", ErrIntegrity)
	}
	a.state = acceptorDone
	final := negTokenResp{State: stateAcceptCompleted}
	return final.appendTo(nil), nil
}
