// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import "regexp"

// varying are the parts of errors of Go's network packages that are different each time that
// the same thing goes wrong, each with what stands for it. An API server tells its users the
// errors that it has with webhooks, for example.
var varying = []struct {
	part *regexp.Regexp
	as   string
}{
	// crypto/x509, of a certificate that has expired or is not valid yet
	{regexp.MustCompile(`current time \S+ is (before|after) `), "it is $1 "},
	// net, of a connection that was made: the port that it comes from
	{regexp.MustCompile(`\b(tcp|udp)([46]?) \S+->`), "$1$2 "},
	// net/http, of one request on a connection of HTTP/2
	{regexp.MustCompile(`\bstream ID \d+`), "a stream"},
	{regexp.MustCompile(`\bLastStreamID=\d+, `), ""},
}

// stripVaryingParts returns the text of an error without what varies. Conditions with it would be written
// each time that an object is tried again, on the hub.
func stripVaryingParts(text string) string {
	for _, v := range varying {
		text = v.part.ReplaceAllString(text, v.as)
	}
	return text
}
