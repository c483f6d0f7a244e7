// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"bytes"
	"encoding/json"
)

// payerNameMax is how many bytes of the name of a payer count.
const payerNameMax = 256

// payerOf returns for whom a review is that begins so: those who use the namespace of the object, or a user if it is in none. API
// servers write both before the object. What somebody else sends from another address is for nobody that they name.
func payerOf(address string, begin []byte) string {
	payer := textIn(begin, "request", "namespace")
	if payer == "" {
		payer = "user " + textIn(begin, "request", "userInfo", "username")
	}
	return address + " " + payer[:min(len(payer), payerNameMax)]
}

// textIn returns the text at a path of keys in JSON, of which the end may be missing; "" if there is none.
func textIn(begin []byte, path ...string) string {
	reader := json.NewDecoder(bytes.NewReader(begin))
	for _, key := range path {
		if !enterField(reader, key) {
			return ""
		}
	}
	value, err := reader.Token()
	if text, is := value.(string); err == nil && is {
		return text
	}
	return ""
}

// enterField reads an object up to the value of a key, and reports whether there is one.
func enterField(reader *json.Decoder, key string) bool {
	if open, err := reader.Token(); err != nil || open != json.Delim('{') {
		return false
	}
	for reader.More() {
		name, err := reader.Token()
		if err != nil || name == key {
			return err == nil
		}
		var other json.RawMessage
		if reader.Decode(&other) != nil {
			return false
		}
	}
	return false
}
