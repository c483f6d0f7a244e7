// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// A work that is missing on a hub that was restored may be one that the hub
// forgot. The record tells by the version that its work had when it was first
// applied: a work that was there at the snapshot is there still, and whichever came
// later had a later version from the beginning. So the version is written once.

// originOf returns what is noted of a work, "" if there is none.
func originOf(work *workv1.ManifestWork) string {
	if work == nil || work.UID == "" || work.ResourceVersion == "" {
		return ""
	}
	return string(work.UID) + "/" + work.ResourceVersion
}

// renewedBy reports whether a record is of an earlier work than this one, which
// has the same name. A record of an earlier release does not know, and is left so
// until there is something else to write.
func renewedBy(record *workv1.AppliedManifestWork, work *workv1.ManifestWork) bool {
	uid, _, known := strings.Cut(record.Annotations[workv1.AnnotationFirstVersion], "/")
	return known && work != nil && uid != string(work.UID)
}

// setOrigin notes the origin of a record, unless it is of the same work already.
func setOrigin(record *workv1.AppliedManifestWork, origin string) {
	uid, _, _ := strings.Cut(origin, "/")
	if had, _, known := strings.Cut(record.Annotations[workv1.AnnotationFirstVersion], "/"); origin == "" || known && had == uid {
		return
	}
	metav1.SetMetaDataAnnotation(&record.ObjectMeta, workv1.AnnotationFirstVersion, origin)
}

// FirstVersion returns the resourceVersion that the work of a record had when it
// was first applied, "" if that is not known.
func FirstVersion(record *workv1.AppliedManifestWork) string {
	_, version, _ := strings.Cut(record.Annotations[workv1.AnnotationFirstVersion], "/")
	return version
}
