/** What the demo applies: an echo Deployment of three pods, a client pod, and a dual-stack NodePort Service. */
export const MANIFEST = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: echo
spec:
  replicas: 3
  selector:
    matchLabels: { app: echo }
  template:
    metadata:
      labels: { app: echo }
    spec:
      terminationGracePeriodSeconds: 3
      containers:
        - name: echo
          image: lab/echo
          ports:
            - containerPort: 8080
---
apiVersion: v1
kind: Pod
metadata:
  name: client
spec:
  nodeSelector: { kubernetes.io/hostname: node-3 }
  containers:
    - name: client
      image: lab/client
---
apiVersion: v1
kind: Service
metadata:
  name: echo
spec:
  type: NodePort
  ipFamilyPolicy: RequireDualStack
  selector: { app: echo }
  ports:
    - name: http
      port: 80
      targetPort: 8080
      nodePort: 30080
`
