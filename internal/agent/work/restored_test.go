// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/controlplane/restored"
)

// TestWhatARestoredHubForgotStaysUntilThatIsConfirmed plays a hub that was restored: works vanish that nobody deleted,
// and what those brought that came after the snapshot stays.
func TestWhatARestoredHubForgotStaysUntilThatIsConfirmed(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	quick := agentOptions{part: PartOptions{EvictionGracePeriod: time.Millisecond}}
	agent := s.start(quick)
	deliver := func(names ...string) {
		for _, name := range names {
			s.create(s.work(name, s.configMap(name, "1")))
			s.condition(name, "Applied", metav1.ConditionTrue)
		}
	}
	deliver("before")
	snapshot := s.version()
	deliver("kept", "again", "old")
	s.forgetVersion("old") // as an agent of an earlier release left it
	uid := s.has("again", "1").UID
	agent.stop()
	s.vanish("before", "kept", "again", "old")
	s.publish(restored.VersionRange{After: snapshot, Until: s.version()}.String())

	agent = s.start(quick)
	s.missing(metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubRestored, `3 ManifestWorks ("again", "kept", "old")`)
	s.hasNot("before") // it was in the snapshot, or somebody had removed it by force before
	deliver("again")
	s.missing(metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubRestored, `2 ManifestWorks ("kept", "old")`)
	if now := s.has("again", "1").UID; now != uid {
		t.Errorf("the object was made anew, and not taken over")
	}
	agent.stop()
	s.vanish("again")
	s.start(quick)
	s.hasNot("again") // this one the restored hub knew
	s.has("kept", "1")
	s.has("old", "1")

	s.publish("")
	s.missing(metav1.ConditionFalse, clusterv1.ManagedClusterReasonNothingKept, "")
	s.nothingLeft()
}

// version is the latest resourceVersion that the hub has given.
func (s *scene) version() int64 {
	s.t.Helper()
	works := &workv1.ManifestWorkList{}
	if err := s.client.List(s.t.Context(), works, client.InNamespace(s.cluster)); err != nil {
		s.t.Fatal(err)
	}
	version, err := strconv.ParseInt(works.ResourceVersion, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return version
}

// vanish removes works as nobody should.
func (s *scene) vanish(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.change(name, func(w *workv1.ManifestWork) { w.Finalizers = nil })
		s.delete(name)
	}
}

// forgetVersion removes from the record of a work of which version that was.
func (s *scene) forgetVersion(name string) {
	s.t.Helper()
	record := &workv1.AppliedManifestWork{ObjectMeta: metav1.ObjectMeta{Name: s.has(name, "1").OwnerReferences[0].Name}}
	patch := []byte(`{"metadata":{"annotations":{"` + workv1.AnnotationFirstVersion + `":null}}}`)
	if err := s.client.Patch(s.t.Context(), record, client.RawPatch(types.MergePatchType, patch)); err != nil {
		s.t.Fatal(err)
	}
	if _, had := record.Annotations[workv1.AnnotationResourceTypes]; !had {
		s.t.Errorf("the record has the annotations %v", record.Annotations)
	}
}

// publish says which versions the hub forgot; "" takes it back.
func (s *scene) publish(text string) {
	s.t.Helper()
	value, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{
		fleetv1alpha1.AnnotationRestored: map[bool]any{true: nil, false: text}[text == ""],
	}}})
	if err != nil {
		s.t.Fatal(err)
	}
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: s.cluster}}
	if err := s.client.Patch(s.t.Context(), mc, client.RawPatch(types.MergePatchType, value)); err != nil {
		s.t.Fatal(err)
	}
}

// missing waits for the condition WorksMissing.
func (s *scene) missing(status metav1.ConditionStatus, reason, message string) {
	s.t.Helper()
	s.eventually("WorksMissing is "+reason, func() error {
		mc := &clusterv1.ManagedCluster{}
		if err := s.client.Get(s.t.Context(), client.ObjectKey{Name: s.cluster}, mc); err != nil {
			return err
		}
		c := meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionWorksMissing)
		if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, message) {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}
