// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/untrusted/quantity"
)

// heldNow returns how much memory is in use.
func heldNow() int64 {
	var now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&now)
	return int64(now.HeapAlloc)
}

// TestPagesOfElementsDoNotAddUp has a client keep all pages of a list, as reflectors do, each of which is within the
// limits of one answer.
func TestPagesOfElementsDoNotAddUp(t *testing.T) {
	const pagesMax = 20
	var amounts []string
	for i := range elementsMin {
		amounts = append(amounts, fmt.Sprintf(`"%x":0`, i))
	}
	for name, status := range map[string]string{
		"elements":   `"conditions":[{}` + strings.Repeat(",{}", elementsMin-1) + "]",
		"quantities": `"capacity":{` + strings.Join(amounts, ",") + "}",
	} {
		t.Run(name, func(t *testing.T) {
			page := `{"kind":"NodeList","apiVersion":"v1","metadata":{"continue":"next"},"items":[{"status":{` + status + "}}]}"
			clients := clientsOf(t, says("application/json", page))
			before := heldNow()
			var pages []*corev1.NodeList
			var limit *LimitError
			for options := (metav1.ListOptions{Limit: 1}); limit == nil && len(pages) < pagesMax; options.Continue = "next" {
				nodes, err := clients.CoreV1().Nodes().List(t.Context(), options)
				if err != nil && !errors.As(err, &limit) {
					t.Fatal(err)
				}
				pages = append(pages, nodes)
			}
			held := heldNow() - before
			if limit == nil || held > 3*listBytesMax {
				t.Errorf("%d pages of %d bytes take %d MiB, and the last was refused with %v", len(pages), len(page), held>>20, limit)
			}
			t.Logf("%d pages of %d bytes take %d MiB", len(pages), len(page), held>>20)
			runtime.KeepAlive(pages)
		})
	}
}

// countsByItsBytes has the elements and quantities of an object count as fewer bytes than it has.
func countsByItsBytes(t *testing.T, name string, object any) {
	t.Helper()
	known, err := places()
	expect.NoError(t, err)
	text, err := json.Marshal(object)
	expect.NoError(t, err)
	a := &limitedAnswer{frames: &frameScanner{}, quantities: quantity.NewScanner(known), inflated: int64(len(text))}
	expect.NoError(t, a.quantities.ScanBytes(text))
	a.frames.scanFrames(text)
	if weight := a.weighMore(); weight != int64(len(text)) || a.frames.elements == 0 || a.quantities.Count() == 0 {
		t.Errorf("a %s of %d bytes with %d elements and %d quantities counts as %d bytes", name, len(text), a.frames.elements, a.quantities.Count(), weight)
	}
	t.Logf("a %s of %d bytes has %d elements and %d quantities", name, len(text), a.frames.elements, a.quantities.Count())
}

// TestAnOrdinaryNodeCountsByItsBytes has one as kubelets tell it, with nothing that only adds bytes, such as managed fields.
func TestAnOrdinaryNodeCountsByItsBytes(t *testing.T) {
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "worker-12345.region-1.compute.internal", UID: "4b9e2a50-6f0f-4c1e-9c0b-5f6a6d0b8a11", ResourceVersion: "123456789",
		Labels: map[string]string{
			"beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
			"kubernetes.io/hostname": "worker-12345.region-1.compute.internal", "node.kubernetes.io/instance-type": "m5.4xlarge",
			"topology.kubernetes.io/region": "region-1", "topology.kubernetes.io/zone": "region-1a",
		},
		Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true", "node.alpha.kubernetes.io/ttl": "0"},
	}}
	node.Spec = corev1.NodeSpec{
		PodCIDR: "10.12.34.0/24", PodCIDRs: []string{"10.12.34.0/24"}, ProviderID: "cloud:///region-1a/i-0123456789abcdef0",
		Taints: []corev1.Taint{{Key: "dedicated", Value: "batch", Effect: corev1.TaintEffectNoSchedule}},
	}
	node.Status = corev1.NodeStatus{Capacity: corev1.ResourceList{}, Allocatable: corev1.ResourceList{}}
	for name, amount := range map[corev1.ResourceName]string{
		"cpu": "16", "memory": "64309516Ki", "pods": "110", "ephemeral-storage": "103079844Ki", "hugepages-1Gi": "0", "hugepages-2Mi": "0", "nvidia.com/gpu": "4",
	} {
		node.Status.Capacity[name], node.Status.Allocatable[name] = resource.MustParse(amount), resource.MustParse(amount)
	}
	for _, condition := range []corev1.NodeConditionType{"MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable", "Ready"} {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: condition, Status: corev1.ConditionFalse, LastHeartbeatTime: metav1.Unix(1e9, 0), LastTransitionTime: metav1.Unix(1e9, 0),
			Reason: "KubeletHasSufficient", Message: "kubelet has sufficient memory available",
		})
	}
	for i := range 3 {
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.200.100.%d", i)})
	}
	for i := range 50 { // as many as a kubelet tells
		image := fmt.Sprintf("registry.example.com/team-a/service-%d", i)
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{
			Names: []string{image + "@sha256:" + strings.Repeat("c", 64), image + ":v1.23.4"}, SizeBytes: 123456789,
		})
	}
	for i := range 10 {
		volume := corev1.UniqueVolumeName(fmt.Sprintf("kubernetes.io/csi/ebs.csi.aws.com^vol-0123456789abcde%d", i))
		node.Status.VolumesInUse = append(node.Status.VolumesInUse, volume)
		node.Status.VolumesAttached = append(node.Status.VolumesAttached, corev1.AttachedVolume{Name: volume})
	}
	countsByItsBytes(t, "node", node)
}

// TestAnOrdinaryPodCountsByItsBytes has one with two containers, as API servers store it.
func TestAnOrdinaryPodCountsByItsBytes(t *testing.T) {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team-a", Name: "service-5d8f9c7b6d-x2x7k", UID: "4b9e2a50-6f0f-4c1e-9c0b-5f6a6d0b8a11", ResourceVersion: "123456789", GenerateName: "service-5d8f9c7b6d-",
		Labels:          map[string]string{"app.kubernetes.io/name": "service", "pod-template-hash": "5d8f9c7b6d"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "service-5d8f9c7b6d", UID: "6d5c2c8e-3f0e-4d0a-8b3e-1b2a3c4d5e6f"}},
	}}
	pod.Spec = corev1.PodSpec{
		NodeName: "worker-12345.region-1.compute.internal", ServiceAccountName: "service", SchedulerName: "default-scheduler", DNSPolicy: corev1.DNSClusterFirst,
		Volumes: []corev1.Volume{{Name: "kube-api-access-7x2zq", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
		}}}}},
		Tolerations: []corev1.Toleration{
			{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
			{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
		},
	}
	amounts := corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("512Mi")}
	for _, name := range []string{"service", "proxy"} {
		container := corev1.Container{
			Name: name, Image: "registry.example.com/team-a/service:v1.23.4", Args: []string{"--listen=:8080", "--log=json", "--v=2"}, ImagePullPolicy: corev1.PullIfNotPresent,
			Resources:              corev1.ResourceRequirements{Requests: amounts, Limits: amounts},
			VolumeMounts:           []corev1.VolumeMount{{Name: "kube-api-access-7x2zq", ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}},
			TerminationMessagePath: "/dev/termination-log", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
		}
		for i := range 5 {
			container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", i), Value: "true"})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, container)
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: name, Image: container.Image, ImageID: "registry.example.com/team-a/service@sha256:" + strings.Repeat("c", 64), ContainerID: "containerd://" + strings.Repeat("d", 64),
			Resources: &container.Resources, AllocatedResources: amounts,
		})
	}
	for _, condition := range []corev1.PodConditionType{"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(1e9, 0)})
	}
	pod.Status.PodIPs = []corev1.PodIP{{IP: "10.12.34.56"}}
	countsByItsBytes(t, "pod", pod)
}
