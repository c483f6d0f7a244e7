// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package restored is what a hub that was restored from a backup tells its
// agents: which versions of its objects it has forgotten.
//
// A restore raises the revisions of etcd by so much that none is given twice.
// So whatever was written between the snapshot and its loss had a version in a
// Range that the restored hub will never use, and an agent that has a record of
// such a version knows that nobody deleted the object: the hub forgot it.
//
// The VersionRange is published in an annotation of each ManagedCluster, before agents
// can reach the hub, and of the ManagedClusterSet global: the hub gives it to
// clusters that it accepts afterwards, as it may have forgotten clusters, too. Whoever
// removes the annotation confirms that what the hub forgot may go.
//
// It is on ManagedClusters since every agent may read that of its cluster, in
// every mode and also on hubs of OCM, and watches it anyway, and since who may
// change a cluster may confirm for it. An agent may write the annotation of its own
// cluster only, and nobody else acts on that.
package restored

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// VersionRange are the versions that a hub forgot: those after the snapshot that it was
// restored from, up to the last that could have been given before.
type VersionRange struct {
	// After is the revision of the snapshot, and Until that with which the restored
	// hub went on: versions v with After < v <= Until were forgotten.
	After, Until int64
}

// NewVersionRange returns the range of a restore.
func NewVersionRange(after, until int64) (VersionRange, error) {
	if after < 0 || until <= after {
		return VersionRange{}, fmt.Errorf("the revisions %d and %d are not a range: the second has to be greater than the first, and neither less than 0", after, until)
	}
	return VersionRange{After: after, Until: until}, nil
}

var errForm = errors.New("it has to be two revisions of etcd with a hyphen between, such as 1200-1000001200: " +
	"that of the snapshot, and that with which the restored hub went on")

// ParseVersionRange reads what String wrote.
func ParseVersionRange(text string) (VersionRange, error) {
	first, second, ok := strings.Cut(text, "-")
	after, err := strconv.ParseInt(first, 10, 64)
	if !ok || err != nil {
		return VersionRange{}, fmt.Errorf("%q is not a range of versions: %w", text, errForm)
	}
	until, err := strconv.ParseInt(second, 10, 64)
	if err != nil {
		return VersionRange{}, fmt.Errorf("%q is not a range of versions: %w", text, errForm)
	}
	return NewVersionRange(after, until)
}

// String returns the range as it is published.
func (r VersionRange) String() string { return fmt.Sprintf("%d-%d", r.After, r.Until) }

// MayHaveForgotten reports whether the hub may have forgotten what had this
// resourceVersion. It may have if the version is not known or no number.
func (r VersionRange) MayHaveForgotten(resourceVersion string) bool {
	version, err := strconv.ParseInt(resourceVersion, 10, 64)
	return err != nil || r.After < version && version <= r.Until
}

// RangeOf returns the range that is published on an object, nil if there is none.
func RangeOf(object metav1.Object) (*VersionRange, error) {
	text, published := object.GetAnnotations()[fleetv1alpha1.AnnotationRestored]
	if !published {
		return nil, nil //nolint:nilnil // documented
	}
	r, err := ParseVersionRange(text)
	if err != nil {
		return nil, fmt.Errorf("reading the annotation %s: %w", fleetv1alpha1.AnnotationRestored, err)
	}
	return &r, nil
}
