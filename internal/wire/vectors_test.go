package wire

// Vectors that were computed with the hashlib and hmac modules of Python 3 from
// the layouts alone.
const (
	// md5Vector signs the 30 fixed bytes, the key option and the end of clientParams.
	md5Vector = "a52ed1e76a694ebf52da32cc93de4c4c"
	// kdfVector is the key derived from applicationKey, clientKey and serverKey.
	kdfVector = "ae0529c33f1ddbf4af03f5d266119e8ec95eb2e76aff528b01f9c254c9dbb794"
	// bindingVector is the binding of the ConnectionStart of startRows over "iwarp".
	bindingVector = "fa11e77f08dbcd0afad2c976818e3fb84a0b3a5f470112d4746cdb6004c767a2"
	// sealVectorC and sealVectorS are the keys of a sealed connection, of the client and of the
	// server, with the key kdfVector, the client's nonce F1 00 … 00 F2 and bindingVector.
	sealVectorC = "9d8670aedb3bf0a8b420acf842176a61"
	sealVectorS = "060eb728b8a20453a97420405b7e09f9"
)
