// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
)

// release is what differs from one bundle of an operator to the next.
type release struct {
	// version and replaces are semantic versions without a leading v; replaces is
	// empty for the first of a channel.
	version, replaces string
	// image is pinned by a digest if one is known.
	image string
	// date is when the release was made: given, never the present, so that the same
	// release gives the same bundle.
	date string
}

var digests = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

func newRelease(number, replaces, image, digest, date string) (release, error) {
	r := release{version: number, replaces: replaces, image: image, date: date}
	for _, v := range []string{number, replaces} {
		if _, err := version.ParseSemantic(v); v != "" && (err != nil || strings.HasPrefix(v, "v")) {
			return r, fmt.Errorf("%q is no semantic version without a leading v, such as 1.2.3", v)
		}
	}
	if _, err := time.Parse(time.RFC3339, date); err != nil {
		return r, fmt.Errorf("-date %q is not of the form 2006-01-02T15:04:05Z: %w", date, err)
	}
	if digest == "" {
		return r, nil
	}
	if !digests.MatchString(digest) {
		return r, fmt.Errorf("-digest %q is not of the form sha256:… with 64 hexadecimal digits", digest)
	}
	r.image = withoutTag(image) + "@" + digest
	return r, nil
}

// withoutTag leaves alone the colon before the port of a registry.
func withoutTag(image string) string {
	if colon := strings.LastIndex(image, ":"); colon > strings.LastIndex(image, "/") {
		return image[:colon]
	}
	return image
}

// skipped returns the range of versions that may be upgraded to this one without
// those in between: what has the same minor version. From one minor version to
// the next, the way is by what a bundle replaces.
func (r release) skipped() string {
	v := version.MustParseSemantic(r.version)
	if r.replaces == "" || v.Patch() == 0 {
		return ""
	}
	return fmt.Sprintf(">=%d.%d.0 <%s", v.Major(), v.Minor(), r.version)
}
