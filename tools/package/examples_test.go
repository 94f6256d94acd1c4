package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// imageName is the name of the image in the examples.
const imageName = "localhost/lwio:latest"

// documentsOf decodes the documents of an example in YAML.
func documentsOf(t *testing.T, name string) []map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "packaging", name))
	if err != nil {
		t.Fatal(err)
	}
	var all []map[string]any
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var one map[string]any
		err := d.Decode(&one)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(name, err)
		}
		all = append(all, one)
	}
}

// at returns the value at a path of keys and indexes, or fails.
func at(t *testing.T, v any, path ...any) any {
	t.Helper()
	for i, key := range path {
		switch k := key.(type) {
		case string:
			m, ok := v.(map[string]any)
			if v, ok = m[k], ok && m[k] != nil; !ok {
				t.Fatalf("there is no %v", path[:i+1])
			}
		case int:
			l, ok := v.([]any)
			if !ok || k >= len(l) {
				t.Fatalf("there is no %v", path[:i+1])
			}
			v = l[k]
		}
	}
	return v
}

// valueOf returns the value of a flag in arguments.
func valueOf(t *testing.T, args any, name string) string {
	t.Helper()
	list := fmt.Sprint(args)
	_, rest, ok := strings.Cut(list, name+" ")
	if !ok {
		t.Fatalf("%s has no %s", list, name)
	}
	return strings.Fields(strings.Trim(rest, "[]"))[0]
}

// The example of compose publishes the ports of the server, and runs the image without rights.
func TestComposeRunsTheImage(t *testing.T) {
	service := at(t, documentsOf(t, "compose.yaml")[0], "services", "lwio")
	if image := at(t, service, "image"); image != imageName {
		t.Errorf("the image is %v", image)
	}
	ports := fmt.Sprint(at(t, service, "ports"))
	for _, name := range []string{"--listen", "--rdma-listen"} {
		_, port, _ := strings.Cut(valueOf(t, at(t, service, "command"), name), ":")
		if !strings.Contains(ports, port+":"+port) {
			t.Errorf("the port of %s is not one of %s", name, ports)
		}
	}
	if user := fmt.Sprint(at(t, service, "cap_drop"), at(t, service, "cap_add"), at(t, service, "ulimits", "memlock")); user != "[ALL] [IPC_LOCK] -1" {
		t.Errorf("the rights are %s", user)
	}
	// A volume outlives a restart of the container, and begins with the owner and the mode of the directory of the image.
	const volume = "state"
	mount := volume + ":" + filepath.Dir(valueOf(t, at(t, service, "command"), "--state"))
	if out := fmt.Sprint(at(t, service, "volumes")); !strings.Contains(out+" ", " "+mount+"]") {
		t.Errorf("the state is not in a volume: %s", out)
	}
	if all := at(t, documentsOf(t, "compose.yaml")[0], "volumes"); !strings.Contains(fmt.Sprint(all), volume+":") {
		t.Errorf("there is no volume %s: %v", volume, all)
	}
}

// The example of Kubernetes probes the address of the metrics, as the user of the image, and its objects name each other.
func TestKubernetesProbesTheServer(t *testing.T) {
	objects := map[string]map[string]any{}
	for _, o := range documentsOf(t, "kubernetes.yaml") {
		objects[fmt.Sprint(o["kind"])] = o
	}
	pod := at(t, objects["StatefulSet"], "spec", "template", "spec")
	server := at(t, pod, "containers", 0)
	if image := at(t, server, "image"); image != imageName {
		t.Errorf("the image is %v", image)
	}
	if user := at(t, pod, "securityContext", "runAsUser"); user != imageUser {
		t.Errorf("the user is %v", user)
	}
	if added := fmt.Sprint(at(t, server, "securityContext", "capabilities", "add")); added != "[IPC_LOCK]" {
		t.Errorf("the capabilities are %s", added)
	}
	ports := map[any]string{}
	for i := range at(t, server, "ports").([]any) {
		ports[at(t, server, "ports", i, "name")] = fmt.Sprint(at(t, server, "ports", i, "containerPort"))
	}
	for name, flagName := range map[string]string{"smb": "--listen", "rdma": "--rdma-listen", "metrics": "--metrics"} {
		if _, port, _ := strings.Cut(valueOf(t, at(t, server, "args"), flagName), ":"); port != ports[name] || port == "" {
			t.Errorf("the port %s is %q, that of %s is %q", name, ports[name], flagName, port)
		}
	}
	for probe, path := range map[string]string{"livenessProbe": "/livez", "readinessProbe": "/readyz"} {
		if got := fmt.Sprint(at(t, server, probe, "httpGet", "path"), " ", at(t, server, probe, "httpGet", "port")); got != path+" metrics" {
			t.Errorf("%s asks for %s", probe, got)
		}
	}
	var volumes, mounts []string
	for i := range at(t, pod, "volumes").([]any) {
		volumes = append(volumes, fmt.Sprint(at(t, pod, "volumes", i, "name")))
	}
	for _, container := range []any{server, at(t, pod, "initContainers", 0)} {
		for i := range at(t, container, "volumeMounts").([]any) {
			mounts = append(mounts, fmt.Sprint(at(t, container, "volumeMounts", i, "name")))
		}
	}
	slices.Sort(volumes)
	slices.Sort(mounts)
	if !slices.Equal(volumes, slices.Compact(mounts)) {
		t.Errorf("the volumes are %v, and %v are mounted", volumes, mounts)
	}
	if claim := at(t, objects["PersistentVolumeClaim"], "metadata", "name"); !strings.Contains(fmt.Sprint(at(t, pod, "volumes")), fmt.Sprint("claimName:", claim)) {
		t.Errorf("no volume has the claim %v", claim)
	}
	if text := fmt.Sprint(at(t, objects["ConfigMap"], "data", "server.toml")); !strings.Contains(text, "path = \"/srv/data\"") {
		t.Errorf("the configuration is %q", text)
	}
}
