// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package declared

import (
	"bytes"
	"encoding/json"
)

// How much a server may declare of one group version. A server chooses it, and few bytes of it
// become many: a property is a struct of more than a kilobyte, also if it is null, and each
// mistake is told with the name of its type, once more for each type that is around it.
const (
	// bytesMax is how long it may be, and tokensMax how many names, values and ends of these
	// its JSON may have: both are some times as much as those of any API of Kubernetes.
	bytesMax  = 8 << 20
	tokensMax = 200_000
	// depthMax is how deep the JSON may be nested, and nameMax how long the name of a type may
	// be, which has a group, a version and a kind in it.
	depthMax = 100
	nameMax  = 400
	// typeFactor is how many times as much the types take of a document as other things that
	// are decoded: there is a struct for each, and what it is converted to.
	typeFactor = 8
)

// isBounded reports whether a document has no more than a server may declare. It makes nothing
// of what it looks at.
func isBounded(document []byte) bool {
	if len(document) > bytesMax {
		return false
	}
	decoder := json.NewDecoder(bytes.NewReader(document))
	depth := 0
	for range tokensMax {
		token, err := decoder.Token()
		if err != nil { // the end, or what is not understood anyway
			return true
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth > depthMax {
			return false
		}
	}
	return false
}
