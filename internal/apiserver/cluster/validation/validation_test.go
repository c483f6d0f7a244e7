// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/apiserver/cluster/translate"
	"github.com/capstan-io/capstan/internal/apiserver/cluster/validation"
)

func valid() *v1alpha1.Cluster {
	return &v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: "one", Finalizers: []string{v1alpha1.Finalizer}},
		Spec: v1alpha1.ClusterSpec{
			SyncMode: v1alpha1.Push, APIEndpoint: "https://member.example.com:6443", ProxyURL: "socks5://proxy:1080", Region: "eu", Zones: []string{"a", "b"},
			SecretRef: &v1alpha1.LocalSecretReference{Namespace: "n", Name: "s"}, ResourceModels: translate.DefaultModels(),
			Taints: []corev1.Taint{{Key: "example.com/k", Effect: corev1.TaintEffectNoExecute}, {Key: "example.com/k", Effect: corev1.TaintEffectNoSchedule}},
		},
	}
}

func TestAMistakeIsToldWithItsField(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1alpha1.ClusterSpec)
		want   string
	}{
		"Valid":         {func(*v1alpha1.ClusterSpec) {}, ""},
		"NoMode":        {func(s *v1alpha1.ClusterSpec) { s.SyncMode = "" }, `spec.syncMode: Required value: has to be Push or Pull`},
		"Mode":          {func(s *v1alpha1.ClusterSpec) { s.SyncMode = "Poll" }, `spec.syncMode: Unsupported value: "Poll"`},
		"NoEndpoint":    {func(s *v1alpha1.ClusterSpec) { s.APIEndpoint = "" }, `spec.apiEndpoint: Required value`},
		"Endpoint":      {func(s *v1alpha1.ClusterSpec) { s.APIEndpoint = "http://a" }, `spec.apiEndpoint: Invalid value: "http://a": has to be a URL that begins with https://`},
		"Password":      {func(s *v1alpha1.ClusterSpec) { s.ProxyURL = "http://u:secret@p" }, `spec.proxyURL: Invalid value: "http://u:xxxxx@p": must not have credentials`},
		"Proxy":         {func(s *v1alpha1.ClusterSpec) { s.ProxyURL = "ftp://p" }, `has to be a URL that begins with http:// or https:// or socks5://`},
		"ProxyHeader":   {func(s *v1alpha1.ClusterSpec) { s.ProxyHeader = map[string]string{"a": "b"} }, `spec.proxyHeader: Invalid value`},
		"SecretNoSpace": {func(s *v1alpha1.ClusterSpec) { s.SecretRef.Namespace = "" }, `spec.secretRef.namespace: Required value`},
		"SecretName":    {func(s *v1alpha1.ClusterSpec) { s.SecretRef.Name = "../x" }, `spec.secretRef.name: Invalid value: "../x"`},
		"Impersonator": {func(s *v1alpha1.ClusterSpec) {
			s.ImpersonatorSecretRef = &v1alpha1.LocalSecretReference{Namespace: "n"}
		}, `spec.impersonatorSecretRef.name: Required value`},
		"Region":        {func(s *v1alpha1.ClusterSpec) { s.Region = "e u" }, `spec.region: Invalid value: "e u"`},
		"ZoneAndZones":  {func(s *v1alpha1.ClusterSpec) { s.Zone = "c" }, `spec.zone: Invalid value: "c": zone and zones are mutually exclusive`},
		"ZoneTwice":     {func(s *v1alpha1.ClusterSpec) { s.Zones = []string{"a", "a"} }, `spec.zones[1]: Duplicate value: "a"`},
		"TaintKey":      {func(s *v1alpha1.ClusterSpec) { s.Taints[0].Key = "a b" }, `spec.taints[0].key: Invalid value`},
		"TaintEffect":   {func(s *v1alpha1.ClusterSpec) { s.Taints[0].Effect = "Never" }, `spec.taints[0].effect: Unsupported value: "Never"`},
		"TaintNoEffect": {func(s *v1alpha1.ClusterSpec) { s.Taints[0].Effect = "" }, `spec.taints[0].effect: Required value`},
		"TaintTwice":    {func(s *v1alpha1.ClusterSpec) { s.Taints[1] = s.Taints[0] }, `spec.taints[1]: Duplicate value`},
		"ModelGap": {
			func(s *v1alpha1.ClusterSpec) { s.ResourceModels[2].Ranges[0].Min = resource.MustParse("3") },
			`spec.resourceModels[2].ranges[0].min: Invalid value: "3": has to be the max of the grade before, which is 2`,
		},
		"ModelStart": {
			func(s *v1alpha1.ClusterSpec) { s.ResourceModels = s.ResourceModels[1:] }, `spec.resourceModels[0].ranges[0].min: Invalid value: "1": the first grade has to begin at 0`,
		},
		"ModelEnd": {
			func(s *v1alpha1.ClusterSpec) { s.ResourceModels = s.ResourceModels[:3] },
			`spec.resourceModels[2].ranges[0].max: Invalid value: "4": the last grade has to end at 9223372036854775807`,
		},
		"ModelGrade":    {func(s *v1alpha1.ClusterSpec) { s.ResourceModels[3].Grade = 2 }, `spec.resourceModels[3].grade: Duplicate value: 2`},
		"ModelOrder":    {func(s *v1alpha1.ClusterSpec) { s.ResourceModels[0].Grade = 9 }, `spec.resourceModels[1].grade: Invalid value: 1: grades have to be sorted`},
		"ModelMissing":  {func(s *v1alpha1.ClusterSpec) { s.ResourceModels[5].Ranges = s.ResourceModels[5].Ranges[:1] }, `spec.resourceModels[5].ranges: Invalid value: 1: each grade has to have the same resources`},
		"ModelOther":    {func(s *v1alpha1.ClusterSpec) { s.ResourceModels[8].Ranges[1].Name = "disk" }, `spec.resourceModels[8].ranges[1].name: Invalid value: "disk"`},
		"ModelReversed": {func(s *v1alpha1.ClusterSpec) { s.ResourceModels[0].Ranges[0].Max = resource.MustParse("0") }, `spec.resourceModels[0].ranges[0].max: Invalid value: "0": has to be more than min`},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := valid()
			test.change(&cluster.Spec)
			err := validation.ValidateClusterCreate(cluster).ToAggregate()
			switch {
			case test.want == "" && err != nil:
				t.Errorf("a valid Cluster is refused: %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"member1": "", strings.Repeat("a", 48): "", strings.Repeat("a", 49): "may not be more than 48", "a.b": "must not contain dots", "A": "lower case",
	} {
		err := validation.ValidateClusterName(name).ToAggregate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("name %q: %v, want %q", name, err, want)
		}
	}
}

func TestWhatCannotBeChanged(t *testing.T) {
	old := valid()
	old.Spec.ID, old.Name = "i", strings.Repeat("a", 63)
	same := old.DeepCopy()
	if err := validation.ValidateClusterUpdate(same, old).ToAggregate(); err != nil {
		t.Errorf("an update of a cluster with a long name that joined in another way: %v", err)
	}
	same.Spec.ID = "j"
	if err := validation.ValidateClusterUpdate(same, old).ToAggregate(); err == nil || !strings.Contains(err.Error(), `spec.id: Invalid value: "j": the cluster says that it is "i"`) {
		t.Errorf("another id: %v, want that it is refused", err)
	}
	same.Spec.ID, same.Spec.SyncMode = "i", v1alpha1.Pull
	if err := validation.ValidateClusterUpdate(same, old).ToAggregate(); err == nil || !strings.Contains(err.Error(), "spec.syncMode: Invalid value: \"Pull\": field is immutable") {
		t.Errorf("another mode: %v, want that it is refused", err)
	}
}

// TestModelsThatSomebodyElseWroteStay is about models that a ClusterConnection may
// have and a Cluster may not: a label can be written all the same.
func TestModelsThatSomebodyElseWroteStay(t *testing.T) {
	old := valid()
	old.Spec.ResourceModels = old.Spec.ResourceModels[:3]
	labelled := old.DeepCopy()
	labelled.Labels = map[string]string{"a": "b"}
	if err := validation.ValidateClusterUpdate(labelled, old).ToAggregate(); err != nil {
		t.Errorf("a label beside models that somebody else wrote: %v", err)
	}
	labelled.Spec.ResourceModels = labelled.Spec.ResourceModels[:2]
	if err := validation.ValidateClusterUpdate(labelled, old).ToAggregate(); err == nil || !strings.Contains(err.Error(), "spec.resourceModels") {
		t.Errorf("other models that are wrong: %v, want that they are refused", err)
	}
}
