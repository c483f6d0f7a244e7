// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

const (
	namePrefix = "handover-"
	// formerMax is how many former agents a mark has. There are two if a cluster
	// goes back to the agent before, and more only if that happens before all is
	// taken over, and with other agents.
	formerMax = 10
)

// NewMark returns the mark of a cluster, which a hub with the hash knows by the name.
// Nobody has taken anything over yet.
func NewMark(hubHash, cluster string) *workv1.AppliedManifestWork {
	sum := sha256.Sum256([]byte(hubHash + "/" + cluster))
	return &workv1.AppliedManifestWork{ObjectMeta: metav1.ObjectMeta{Name: namePrefix + hex.EncodeToString(sum[:16])}}
}

// IsMark reports whether it is a mark, and no record of a work.
func IsMark(record *workv1.AppliedManifestWork) bool {
	return strings.HasPrefix(record.Name, namePrefix) && record.Spec.ManifestWorkName == "" && record.Annotations[fleetv1alpha1.AnnotationAgentID] != ""
}

// CurrentAgent returns who works for the cluster now, "" if that is not said.
func CurrentAgent(mark *workv1.AppliedManifestWork) string {
	return mark.Annotations[fleetv1alpha1.AnnotationAgentID]
}

// FormerAgents returns who did before, the latest last.
func FormerAgents(mark *workv1.AppliedManifestWork) []string {
	return strings.FieldsFunc(mark.Annotations[fleetv1alpha1.AnnotationFormerAgents], func(r rune) bool { return r == ',' })
}

// RecordTakeover says that the agent takes the place of its predecessor, and reports whether
// that is news.
func RecordTakeover(mark *workv1.AppliedManifestWork, agent, predecessor string) (news bool) {
	former := FormerAgents(mark)
	if CurrentAgent(mark) == agent && slices.Contains(former, predecessor) {
		return false
	}
	for _, before := range []string{CurrentAgent(mark), predecessor} {
		former = slices.DeleteFunc(former, func(id string) bool { return id == agent || id == before })
		if before != "" && before != agent {
			former = append(former, before)
		}
	}
	former = former[max(0, len(former)-formerMax):]
	metav1.SetMetaDataAnnotation(&mark.ObjectMeta, fleetv1alpha1.AnnotationAgentID, agent)
	metav1.SetMetaDataAnnotation(&mark.ObjectMeta, fleetv1alpha1.AnnotationFormerAgents, strings.Join(former, ","))
	return true
}

// SuccessorOf returns who takes over what an agent delivered, by the marks among the
// AppliedManifestWorks of a member; "" if nobody does.
func SuccessorOf(records []workv1.AppliedManifestWork, agent string) string {
	for i := range records {
		if mark := &records[i]; IsMark(mark) && CurrentAgent(mark) != agent && slices.Contains(FormerAgents(mark), agent) {
			return CurrentAgent(mark)
		}
	}
	return ""
}
