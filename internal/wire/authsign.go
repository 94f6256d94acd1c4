package wire

import (
	"crypto/md5"
	"crypto/subtle"
)

// SignMD5 fills in the signature of encoded parameters: the MD5 of all their
// bytes, the end of the options included, without the 18 bytes of the signature
// option. It comes last, after SignKeyed.
//
// It detects damage, and does not prove the identity of the sender.
//
// Errors: *Error if params do not decode or have no signature option.
//
// Source: [LWIO §Connection Authentication], [OP-45], [OP-46], [OP-46b]
func SignMD5(params []byte) error {
	at, err := findOption(params, optionSignature)
	if err != nil {
		return err
	}
	sum := sumMD5(params, at)
	copy(params[at+2:], sum[:])
	return nil
}

// VerifyMD5 checks the signature of encoded parameters, in constant time.
//
// Errors: *Error with ACCESS_DENIED, which ends the connection.
//
// Source: [LWIO §Connection Authentication], [OP-45]
func VerifyMD5(params []byte) error {
	at, err := findOption(params, optionSignature)
	if err != nil {
		return err
	}
	sum := sumMD5(params, at)
	if subtle.ConstantTimeCompare(sum[:], params[at+2:at+2+signatureSize]) != 1 {
		return deny(authParams, "the signature is wrong")
	}
	return nil
}

// sumMD5 is the MD5 of params without the signature option, which begins at at.
func sumMD5(params []byte, at int) (sum [md5.Size]byte) {
	d := md5.New()
	d.Write(params[:at])
	d.Write(params[at+2+signatureSize:])
	d.Sum(sum[:0])
	return sum
}

// findOption returns the index of an option's code byte in encoded parameters.
func findOption(params []byte, code uint8) (int, error) {
	at := 0
	w := walkOptions(params)
	for w.next() {
		if w.code == code {
			at = w.at
		}
	}
	if w.err != nil {
		return 0, w.err
	}
	if at == 0 {
		return 0, deny(authParams, "option 0x%02X is missing", code)
	}
	return at, nil
}
